"""Apache's ``pulsar-admin`` for many commands in one JVM: ``python -m tests.apache_admin LIB URL``.

Reads a JSON list of words a line and answers each with a line of JSON: whether the command worked,
and what the tool printed. (Each start of the tool itself costs a second and more.)
"""

import json
import os
import sys
from pathlib import Path

from jpype import JArray, JClass, JObject, JString

from tests.conformance.jvm import java

TOOL = "org.apache.pulsar.admin.cli.PulsarAdminTool"


def main(lib: str, url: str) -> None:
    # Whatever Java's libraries print of themselves is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    java.start(Path(lib))
    system = JClass("java.lang.System")
    printed = JClass("java.io.ByteArrayOutputStream")()
    stream = JClass("java.io.PrintStream")(printed, True)
    system.setOut(stream)
    system.setErr(stream)
    settings = JClass("java.util.Properties")()
    settings.setProperty("webServiceUrl", url)
    tool = JClass(TOOL)(settings)
    run = tool.getClass().getDeclaredMethod("run", JArray(JString).class_)
    run.setAccessible(True)
    for line in sys.stdin:
        printed.reset()
        worked = run.invoke(tool, JArray(JObject)([JArray(JString)(json.loads(line))]))
        found = {"worked": bool(worked), "text": str(printed.toString()).strip()}
        answers.write(json.dumps(found) + "\n")
        answers.flush()
    # Its HTTP client has threads that nobody ends.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
