"""Pages for a person, each one HTML file that needs no network and no script; pictures as SVG."""
