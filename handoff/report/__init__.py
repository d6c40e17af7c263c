"""What people look at: tables, plots and the round's page. Everything shown is read from the lake."""
