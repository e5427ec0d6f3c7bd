"""Tables for papers."""

from __future__ import annotations

import pandas as pd

_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
        "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "±": r"$\pm$", ">": r"$>$", "<": r"$<$", "\n": " ", "\r": " ",
    }
)  # fmt: skip


def booktabs(table: pd.DataFrame) -> str:
    """A tabular of cells that are text; the first column stands left, numbers right."""
    count = len(table.columns)
    rows = [[str(name).strip() for name in table], *table.itertuples(index=False)]
    head, *body = [" & ".join(escaped(cell) for cell in row) + r" \\" for row in rows]
    lines = [
        r"% needs \usepackage{booktabs}", rf"\begin{{tabular}}{{l{'r' * (count - 1)}}}",
        r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """As LaTeX prints it; "-" for what is not known becomes a dash."""
    return "--" if text == "-" else text.translate(_SPECIAL)
