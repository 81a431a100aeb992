from tabsynth.drafting.drafts import draft_schema as draft_schema
from tabsynth.drafting.drafts import review as review
from tabsynth.drafting.private_schema import draft_private as draft_private
from tabsynth.drafting.summary import summarize as summarize
