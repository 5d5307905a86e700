# SPDX-License-Identifier: MIT
"""The name `mooncake` for kvd.mooncake: with the folder above this one first in PYTHONPATH,
`mooncake.store` is kvd's. Other modules of an installed Mooncake, such as `mooncake.engine`, stay
what they are."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
