"""What an API process opens once and shares between requests: its context, caches and gauges."""
