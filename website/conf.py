"""Settings of Sphinx for the site. `website/build.py` starts it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import doctor
from doctor.report.addresses import SITE

project = "doctor"
author = "the doctor's contributors"
version = release = doctor.__version__
extensions = ["myst_parser"]
myst_heading_anchors = 6
suppress_warnings = ["myst.header"]
html_theme = "furo"
html_title = f"doctor {version}"
html_baseurl = SITE
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
nitpicky = True
html_extra_path = ["../build/pages/llms.txt"]
