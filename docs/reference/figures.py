"""Write the definitions of the report's figures into evaluation.md: python docs/reference/figures.py.

The entries are those of ``tabsynth/evaluation/definitions.toml``, which the HTML reports show as well. A test fails if the
page and the entries differ.
"""

from pathlib import Path

from tabsynth.evaluation.definitions import DEFINITIONS, Definition

PAGE = Path(__file__).with_name("evaluation.md")
BEGIN = "<!-- {}: written by figures.py, do not edit -->"
END = "<!-- end of {} -->"


def section(group: str) -> str:
    """Return the Markdown of the definitions of one group, with a heading each."""
    return "\n\n".join(entry(item, group) for item in DEFINITIONS[group])


def entry(item: Definition, group: str) -> str:
    """Return the Markdown of one definition."""
    facts = [f"- **{term}**: {plain(text)}" for term, text in item.facts]
    if group != "page":
        facts.insert(0, f"- **Metrics**: {', '.join(f'`{key}`' for key in item.keys)}")
    return f"### {item.name}\n\n" + "\n".join(facts)


def plain(text: str) -> str:
    """Return the text without characters that Markdown would act upon."""
    for sign in "*_<":
        text = text.replace(sign, "\\" + sign)
    return text


def page(text: str) -> str:
    """Return the page with every section written again between its marks."""
    for group in DEFINITIONS:
        begin, end = BEGIN.format(group), END.format(group)
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n\n{section(group)}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
