"""What a researcher asks of single queries: functions of tables alone."""
