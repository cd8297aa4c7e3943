"""Regenerate the protobuf modules of ``counterpoise.wire.proto`` from its ``.proto`` files.

Run it after changing a definition; the generated files are committed, so that using the package
needs no compiler.
"""

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
DEFINITIONS = SOURCE / "counterpoise" / "wire" / "proto"


def main() -> int:
    builtin = Path(grpc_tools.__file__).parent / "_proto"
    definitions = sorted(str(path) for path in DEFINITIONS.glob("*.proto"))
    return int(
        protoc.main(
            [
                "protoc",
                f"--proto_path={SOURCE}",
                f"--proto_path={builtin}",
                f"--python_out={SOURCE}",
                f"--pyi_out={SOURCE}",
                *definitions,
            ]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
