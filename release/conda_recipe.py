"""Writes dist/recipe.yaml, the recipe for conda-forge: pyproject.toml and the sdist of dist."""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEMPLATE = """\
# yaml-language-server: $schema=https://raw.githubusercontent.com/prefix-dev/recipe-format/main/schema.json
schema_version: 1

context:
  version: "{version}"

package:
  name: {name}
  version: ${{{{ version }}}}

source:
  url: https://pypi.org/packages/source/p/{name}/{file}-${{{{ version }}}}.tar.gz
  sha256: {sha256}

build:
  number: 0
  noarch: python
  script: python -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
{scripts}

requirements:
  host:
    - python ${{{{ python_min }}}}.*
    - pip
{build}
  run:
    - python >=${{{{ python_min }}}}
{run}

tests:
  - python:
      imports: [preflight_doctor]
      pip_check: true
      python_version: ${{{{ python_min }}}}.*
  - script:
      - doctor --version
      - doctor explain NUM003

about:
  homepage: {repository}
  repository: {repository}
  summary: {summary}
  license: {license}
  license_file: LICENSE

extra:
  recipe-maintainers: []
"""


def recipe(sdist: Path) -> str:
    """The recipe of this source distribution: NAME-VERSION.tar.gz."""
    sys.path.insert(0, str(ROOT))
    from doctor.report.addresses import REPOSITORY

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    about = project["project"]
    file, _, version = sdist.name.removesuffix(".tar.gz").rpartition("-")
    scripts = [f"{name} = {target}" for name, target in about["scripts"].items()]
    return TEMPLATE.format(
        name=about["name"],
        file=file,
        version=version,
        sha256=hashlib.sha256(sdist.read_bytes()).hexdigest(),
        repository=REPOSITORY,
        summary=json.dumps(about["description"]),
        license=about["license"],
        scripts="\n".join(f"      - {each}" for each in scripts),
        build=_requirements(project["build-system"]["requires"]),
        run=_requirements(about["dependencies"]),
    )


def _requirements(lines: list[str]) -> str:
    """As conda has them: a space before the version."""
    return "\n".join("    - " + line.replace(">=", " >=") for line in lines)


if __name__ == "__main__":
    (built,) = (ROOT / "dist").glob("*.tar.gz")
    text = recipe(built)
    (ROOT / "dist/recipe.yaml").write_text(text, "utf-8")
    try:
        from rattler_build import Stage0Recipe, VariantConfig
    except ImportError:
        sys.exit("recipe.yaml was not rendered: py-rattler-build is not installed")
    Stage0Recipe.from_yaml(text).render(VariantConfig({"python_min": ["3.11"]}))
