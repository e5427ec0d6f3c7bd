"""Sphinx, for scripts/docs.sh. Readers fetch nothing from elsewhere."""

from importlib.metadata import version as version_of

from simulator.reference import reference
from simulator.scenario import Scenario
from simulator.study import Study

project = "meshfl"
version = release = version_of("meshfl")
author = "the engineers of meshfl"
extensions = ["myst_nb"]
exclude_patterns = ["_*", "**.ipynb_checkpoints"]
nitpicky = True
smartquotes = False
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
html_theme = "furo"
html_title = "meshfl"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}

GENERATED = {"reference/scenario": Scenario, "reference/study": Study}


def setup(app):
    app.connect("source-read", add_reference)


def add_reference(app, page, content):
    """What the models say, after what the page says."""
    if page in GENERATED:
        content[0] += "\n" + reference(GENERATED[page])
