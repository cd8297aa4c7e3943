"""Apache's ``pulsar-admin`` for many commands in one JVM: ``python -m tests.apache_admin LIB URL``.

Reads a JSON list of words a line and answers each with a line of JSON: whether the command worked,
and what the tool printed; ``null``, with the commands that there are. (Each start of the tool
itself costs a second and more.)
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from jpype import JArray, JClass, JObject, JString

from tests.conformance.jvm import java

TOOL = "org.apache.pulsar.admin.cli.PulsarAdminTool"


def main(lib: str, url: str) -> None:
    # Whatever Java's libraries print of themselves is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    java.start(Path(lib), briefly=True)
    system = JClass("java.lang.System")
    printed = JClass("java.io.ByteArrayOutputStream")()
    settings = JClass("java.util.Properties")()
    settings.setProperty("webServiceUrl", url)
    tool = JClass(TOOL)(settings)
    run = tool.getClass().getDeclaredMethod("run", JArray(JString).class_)
    run.setAccessible(True)
    for line in sys.stdin:
        words = json.loads(line)
        if words is None:
            found: Any = _commands(tool)
        else:
            # A new one each time: some commands close what they print to.
            stream = JClass("java.io.PrintStream")(printed, True)
            system.setOut(stream)
            system.setErr(stream)
            printed.reset()
            worked = run.invoke(tool, JArray(JObject)([JArray(JString)(words)]))
            found = {"worked": bool(worked), "text": str(printed.toString()).strip()}
        answers.write(json.dumps(found) + "\n")
        answers.flush()
    # Its HTTP client has threads that it never ends.
    os._exit(0)


def _commands(tool: Any) -> dict[str, list[str]]:
    """Each group's commands, as its parser knows them."""
    field = tool.getClass().getDeclaredField("commander")
    field.setAccessible(True)
    groups = field.get(tool).getSubcommands()
    return {
        str(name): [str(each) for each in groups.get(name).getSubcommands().keySet()]
        for name in groups.keySet()
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
