"""``meshfl report``: runs and studies as one page for a browser; ``meshfl timeline``: a trace."""
