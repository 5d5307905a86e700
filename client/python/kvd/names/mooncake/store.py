# SPDX-License-Identifier: MIT
"""kvd.mooncake by the name under which programs import Mooncake's store."""

from kvd.mooncake import (
    BufferHandle, MooncakeDistributedStore, ReplicateConfig, SoftPinAction,
)

__all__ = ["BufferHandle", "MooncakeDistributedStore", "ReplicateConfig", "SoftPinAction"]
