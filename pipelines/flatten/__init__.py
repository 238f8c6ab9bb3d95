"""Functions that flatten the API's JSON records into table rows."""
