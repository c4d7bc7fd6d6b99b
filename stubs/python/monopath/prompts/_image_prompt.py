"""How one family of models writes an image into a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from monopath.prompts._expansion import ExpandedTokenIds, check_placeholder_count, replace_token_ids

if TYPE_CHECKING:
    from monopath._records import ImagePlan

__all__ = ["Encode", "ImagePrompt"]

Encode: TypeAlias = Callable[[str], Sequence[int]]
"""Text to token ids, control tokens such as `<|media_begin|>` as one id each, and nothing added around them."""


@dataclass(frozen=True, slots=True)
class ImagePrompt:
    """What stands for an image in a prompt: `prefix`, placeholders, `suffix`."""

    placeholder: str
    """One of them for each token of the image."""
    prefix: str
    """Text before the placeholders. "{width}" and "{height}" are the image's original size in pixels."""
    suffix: str
    is_framed_by_template: bool
    """The chat template writes prefix and suffix itself. Else it writes the placeholder alone, and expanding adds them.
    """

    @property
    def unexpanded(self) -> str:
        """What a chat template writes for an image, and what the methods expand."""
        return f"{self.prefix}{self.placeholder}{self.suffix}" if self.is_framed_by_template else self.placeholder

    def text(self, plan: ImagePlan) -> str:
        """Return the whole text of one image, prefix and suffix included."""
        size = plan.original_size
        prefix = self.prefix.format(width=size.width_px, height=size.height_px)
        return f"{prefix}{self.placeholder * plan.token_count}{self.suffix}"

    def expand_text(self, text: str, plans: Iterable[ImagePlan]) -> str:
        """Return the prompt with all tokens of its images. `plans` are in the order of the placeholders.

        Raises ValueError unless there is one placeholder for each image.
        """
        known = tuple(plans)
        parts = text.split(self.placeholder)
        check_placeholder_count(len(parts) - 1, len(known))
        images = [
            self.placeholder * plan.token_count if self.is_framed_by_template else self.text(plan) for plan in known
        ]
        return parts[0] + "".join(image + part for image, part in zip(images, parts[1:], strict=True))

    def expand_token_ids(
        self,
        token_ids: Sequence[int],
        plans: Iterable[ImagePlan],
        placeholder_id: int,
        *,
        encode: Encode | None = None,
    ) -> ExpandedTokenIds:
        """Return the prompt with all tokens of its images, and where they are.

        `plans` are in the order of the placeholders, `placeholder_id` is that of `placeholder`. `encode` is the
        tokenizer's; it is needed where the family's template leaves the framing to the processor.

        Raises ValueError unless there is one placeholder for each image, and TypeError for a missing `encode`.
        """
        known = tuple(plans)
        counts = [plan.token_count for plan in known]
        if self.is_framed_by_template:
            nothing: list[Sequence[int]] = [()] * len(known)
            return replace_token_ids(token_ids, placeholder_id, counts, nothing, nothing)
        if encode is None:
            raise TypeError("Expected encode, since this family's framing has the image's size in it, got none")
        sizes = [plan.original_size for plan in known]
        prefixes = [encode(self.prefix.format(width=size.width_px, height=size.height_px)) for size in sizes]
        suffix = encode(self.suffix)
        return replace_token_ids(token_ids, placeholder_id, counts, prefixes, [suffix] * len(known))
