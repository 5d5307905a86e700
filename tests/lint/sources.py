# SPDX-License-Identifier: MIT
"""Lists the files of the tree, for the checks in this folder."""
import os
import subprocess

SKIPPED = {".git", "build", "__pycache__"}


def paths():
    """The files that git knows or does not ignore; where git can't be asked, all but build/."""
    try:
        listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"],
                                capture_output=True, text=True, check=True).stdout
        found = [path for path in listed.split("\0") if path]
    except (FileNotFoundError, subprocess.CalledProcessError):
        found = []
        for folder, folders, names in os.walk("."):
            folders[:] = [name for name in folders if name not in SKIPPED]
            found += [os.path.relpath(os.path.join(folder, name)) for name in names]
    return sorted(path for path in found if os.path.isfile(path))
