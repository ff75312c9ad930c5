"""Text of a new config: the sample, with some keys set."""

import re
from collections.abc import Mapping

from regsvc.config.key_types import to_toml


def fill_sample(sample: str, values: Mapping[str, object]) -> str:
    """Return the sample config with these values by "section.key"; a secret's `key_file` takes the place of the key.

    Keys that the sample does not list are left out.
    """
    section = ""
    lines = []
    for line in sample.splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = header[1]
        default = re.match(r"#(\w+) = ", line)
        for name in (default[1], f"{default[1]}_file") if default else ():
            if f"{section}.{name}" in values:
                line = f"{name} = {to_toml(values[f'{section}.{name}'])}"
        lines.append(line)
    return "\n".join(lines) + "\n"
