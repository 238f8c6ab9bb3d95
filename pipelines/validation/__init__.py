"""What a setting may be: cron expressions and known names."""
