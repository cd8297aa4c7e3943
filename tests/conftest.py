"""What holds for all tests: no example is judged by how long a busy machine takes for it."""

from hypothesis import settings

settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
