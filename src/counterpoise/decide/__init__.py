"""What should move, where it should go, and where it should be cut: functions of frozen views."""
