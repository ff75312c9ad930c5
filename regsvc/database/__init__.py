"""The database: engine, models, migrations, location, audit log."""
