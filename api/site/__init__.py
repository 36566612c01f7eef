"""The parts that the dashboard and the portal share, such as sessions, forms and charts."""
