"""Write the schemas of this folder from their sources (README.md), for the kinds in use.

    python tests/vendor/schemas/trim.py SWAGGER CRD [CRD ...]

Descriptions and extensions are left out, and a field that a schema does not know is refused, as
`kubectl apply --validate=strict` does. References of the Kubernetes schema become "#/$defs/...".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
KINDS = (
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.apps.v1.StatefulSet",
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.networking.v1.NetworkPolicy",
    "io.k8s.api.policy.v1.PodDisruptionBudget",
)
_DEFINITIONS = "#/definitions/"
_OF_EVERY_OBJECT = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
# Whole numbers or text: the API takes both.
_EITHER = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


def trimmed(schema: Any, *, names: bool = False) -> Any:
    """Return a schema without what does not validate; `names`: the keys are names of fields."""
    if isinstance(schema, list):
        return [trimmed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if not names and schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    kept = {
        key: trimmed(each, names=key in ("properties", "definitions") and not names)
        for key, each in schema.items()
        if names or not (key in ("description", "default", "format") or key.startswith("x-"))
    }
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if not names and "properties" in schema and not open_ended:
        kept.setdefault("additionalProperties", False)
    if isinstance(kept.get("$ref"), str):
        kept["$ref"] = kept["$ref"].replace(_DEFINITIONS, "#/$defs/")
    return kept


def references(schema: Any) -> set[str]:
    """Return the definitions that a schema refers to."""
    if isinstance(schema, list):
        return {name for each in schema for name in references(each)}
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"].removeprefix(_DEFINITIONS)} if isinstance(schema.get("$ref"), str) else ()
    return {name for each in schema.values() for name in references(each)}.union(own)


def kubernetes(swagger: Path) -> dict[str, Any]:
    """Return the definitions that `KINDS` need."""
    every = json.loads(swagger.read_text(encoding="utf-8"))["definitions"]
    found: dict[str, Any] = {}
    left = set(KINDS)
    while left:
        name = left.pop()
        found[name] = every[name]
        left |= references(every[name]) - found.keys()
    definitions = {name: trimmed(each) for name, each in sorted(found.items())}
    definitions[_EITHER] = {"type": ["integer", "string"]}
    return {"$defs": definitions}


def custom(file: Path) -> tuple[str, dict[str, Any]]:
    """Return "group/version/kind" and the schema of a CustomResourceDefinition's newest version."""
    spec = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
    version = spec["versions"][0]
    schema = trimmed(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {**_OF_EVERY_OBJECT, "metadata": {"type": "object"}}
    schema["properties"].pop("status", None)
    return f"{spec['group']}/{version['name']}/{spec['names']['kind']}", schema


def main(swagger: str, *files: str) -> None:
    """Write both files."""
    for name, schemas in (
        ("kubernetes.json", kubernetes(Path(swagger))),
        ("custom-resources.json", dict(custom(Path(file)) for file in files)),
    ):
        text = json.dumps(schemas, sort_keys=True, separators=(",", ":"))
        # A line a definition, so that a new version shows what has changed.
        (HERE / name).write_text(text.replace('},"io.', '},\n"io.') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
