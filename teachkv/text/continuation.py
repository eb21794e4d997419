"""Leaving the last message of a chat open, so that the model goes on with it."""

from typing import Any

from teachkv.errors import TemplateError

# As in the reference: a word behind the final text shows where the template put it; the space at its end shows whether
# the template strips messages.
TAG = "CONTINUE_FINAL_MESSAGE_TAG "


def with_tag(chat: list[Any], key: str, template: str, where: str) -> str:
    """Put the tag behind the final message's text, in place, and return that text."""
    final = chat[-1].get(key)
    if final is None:
        raise TemplateError(f"{where}: the final message has no '{key}' to continue")
    if key not in template:
        raise TemplateError(f"{where}: the template does not use '{key}', so it cannot be continued")
    if isinstance(final, str):
        chat[-1][key] = final + TAG
        return final
    parts = [part for part in final if isinstance(part, dict) and "text" in part] if isinstance(final, list) else []
    if not parts:
        raise TemplateError(f"{where}: the final message holds no text to continue")
    text = str(parts[-1]["text"])
    parts[-1]["text"] = text + TAG
    return text


def cut_after_final(text: str, final: str, where: str) -> str:
    """The rendered text up to the end of the final message."""
    place = text.rfind(TAG.strip())
    if place < 0 or final.strip() not in text:
        raise TemplateError(f"{where}: the template changes or drops the final message, so it cannot be continued")
    # guard[continue-open]: a template that strips messages has stripped the tag too; the space before it must go as
    # well
    # mutant[continue-open/keeps-space]:
    #   - return text[:place] if text.startswith(TAG, place) else text[:place].rstrip()
    #   + return text[:place]
    return text[:place] if text.startswith(TAG, place) else text[:place].rstrip()
