"""Regenerate the protobuf modules of ``counterpoise`` from its ``.proto`` files.

Run it after changing a definition; the generated files are committed, so that using the package
needs no compiler.
"""

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
DEFINITIONS = "counterpoise/*/proto/*.proto"


def main(source: Path) -> int:
    """Compile the definitions below ``source``; the modules are written beside them."""
    builtin = Path(grpc_tools.__file__).parent / "_proto"
    definitions = sorted(str(path) for path in source.glob(DEFINITIONS))
    return int(
        protoc.main(
            [
                "protoc",
                f"--proto_path={source}",
                f"--proto_path={builtin}",
                f"--python_out={source}",
                f"--pyi_out={source}",
                *definitions,
            ]
        )
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src"))
