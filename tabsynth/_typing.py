"""Types that several packages share."""

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
