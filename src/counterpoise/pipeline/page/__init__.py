"""Self-contained HTML pages: no network, no script; pictures are SVG."""
