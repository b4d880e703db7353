"""What a researcher computes from finished runs: functions of tables alone."""
