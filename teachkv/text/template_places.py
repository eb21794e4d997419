"""All the places in which a model folder can keep its chat templates, and which of them wins.

    1. chat_template.jinja, with further named ones in additional_chat_templates/NAME.jinja
    2. tokenizer_config.json: "chat_template", a string or a list of {"name", "template"}
    3. chat_template.json: "chat_template" (older processors)
    4. processor_config.json: "chat_template"

The first place that holds any template is taken whole; later ones are not mixed in. None at all is no error until
somebody asks for a chat: a template is never guessed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teachkv.errors import TokenizerError
from teachkv.text.sources import TextFiles, read_json, read_text

FILE, MORE = "chat_template.jinja", "additional_chat_templates"
JSON_PLACES = ("tokenizer_config.json", "chat_template.json", "processor_config.json")


def find_templates(files: TextFiles) -> tuple[dict[str, str], str]:
    """(template by name, place they were found in); ({}, "") if there are none. Raises TokenizerError if one is
    damaged.
    """
    # guard[template-place]: the file wins over the config, as in the reference; a model ships fixes in the file
    # origin: huggingface/transformers#33246
    # mutant[template-place/config-first]:
    #   - for look in (_from_files, *(_json_look(name) for name in JSON_PLACES)):
    #   + for look in (*(_json_look(name) for name in JSON_PLACES), _from_files):
    # mutant[template-place/no-file]:
    #   - for look in (_from_files, *(_json_look(name) for name in JSON_PLACES)):
    #   + for look in [_json_look(name) for name in JSON_PLACES]:
    for look in (_from_files, *(_json_look(name) for name in JSON_PLACES)):
        found, place = look(files)
        if found:
            return found, place
    return {}, ""


def passed_over(files: TextFiles) -> list[tuple[str, str]]:
    """(place in use, place that holds templates too and is not used), for each of the latter. What is not used may be
    damaged.
    """
    places = []
    for place, look in ((FILE, _from_files), *((name, _json_look(name)) for name in JSON_PLACES)):
        try:
            found, place = look(files)
        except TokenizerError:
            found = {"damaged": ""}
        if found:
            places.append(place)
    return [(places[0], place) for place in places[1:]]


def _from_files(files: TextFiles) -> tuple[dict[str, str], str]:
    found = {}
    default = read_text(files, FILE)
    if default is not None:
        found["default"] = default
    for name in _more_names(files.folder):
        text = read_text(files, f"{MORE}/{name}.jinja")
        if text is not None:
            found[name] = text
    return found, FILE if default is not None else MORE


def _more_names(folder: Path | None) -> list[str]:
    if folder is None or not (folder / MORE).is_dir():
        return []
    return sorted(path.stem for path in (folder / MORE).glob("*.jinja"))


def _json_look(name: str) -> Any:
    return lambda files: (_named((read_json(files, name) or {}).get("chat_template"), f"{files.where}: {name}"), name)


def _named(value: Any, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    entries = value if isinstance(value, list) else [{"name": k, "template": v} for k, v in _pairs(value, where)]
    found = {}
    for entry in entries:
        if not isinstance(entry, Mapping) or not all(isinstance(entry.get(key), str) for key in ("name", "template")):
            raise TokenizerError(f"{where}: an entry of chat_template is no pair of 'name' and 'template'; correct it")
        found[entry["name"]] = entry["template"]
    return found


def _pairs(value: Any, where: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise TokenizerError(f"{where}: chat_template is a {type(value).__name__}; expected a string or a list")
    return list(value.items())
