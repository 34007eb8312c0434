"""Settings of the documentation: ``python -m sphinx -W --keep-going docs docs/_build/html``.

Building needs the extra ``docs`` and no network: formulas become MathML, pictures are drawn by the
examples, and nothing on a page is fetched from elsewhere.
"""

import os
import sys
from pathlib import Path

import fuzzytwin

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Examples print the same on every computer, and do not compete for cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

project = "fuzzytwin"
author = "fuzzytwin developers"
copyright = "fuzzytwin developers, BSD 3-Clause"
version = release = fuzzytwin.__version__
language = "en"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "matplotlib.sphinxext.plot_directive",
    "sphinx_gallery.gen_gallery",
    "autolink",
    "description",
    "docstrings",
    "layers",
    "longwords",
    "mathml",
]
exclude_patterns = [
    "_build",
    "**/*.py",
    "**/*.py.md5",
    "sg_execution_times.rst",
    "**/sg_execution_times.rst",
]
templates_path = ["_templates"]
default_role = "py:obj"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

toc_object_entries_show_parents = "hide"
plot_html_show_formats = False
plot_html_show_source_link = False
plot_formats = [("png", 110)]

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_favicon = "_static/favicon.svg"  # drawn by make_pictures.py
html_title = "fuzzytwin"
html_static_path = ["_static"]
html_css_files = ["site.css", "gallery.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    # There is no public repository to link to yet: "page-file" names the file of a page instead.
    "secondary_sidebar_items": ["page-toc", "page-file"],
    "logo": {
        "text": "fuzzytwin",
        "image_light": "_static/favicon.svg",
        "image_dark": "_static/favicon.svg",
        "alt_text": "fuzzytwin: two planes, and rows near to each",
    },
}
PAGES_WITHOUT_SIDEBAR = ("index", "compare", "limits", "faq", "glossary", "changelog", "cite")
html_sidebars = {page: [] for page in (*PAGES_WITHOUT_SIDEBAR, "contributing")}

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["gallery"],
    "backreferences_dir": "gallery/used_by",
    "doc_module": ("fuzzytwin",),
    "filename_pattern": "plot_",
    # Sections in this order. Inside of a section, by file name.
    "subsection_order": [
        f"../examples/{section}"
        for section in ("first_steps", "label_errors", "classifiers", "twin_svms", "large_data")
    ],
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": (),  # what an example prints, not what its last line is
    "show_signature": False,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "plot_gallery": "True",
    "thumbnail_size": (600, 400),
    "remove_config_comments": True,
    "min_reported_time": 3600,
}
