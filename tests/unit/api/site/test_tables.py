"""The cells of tables, which carry what a card on a phone shows."""

from __future__ import annotations

import re

from markupsafe import escape

from api.site import tables


def test_each_cell_has_its_role_and_the_name_of_its_column() -> None:
    columns = tables.columns(["Endpoint", "!Health", "#Attempts", 'So "called"', ""])
    row = (
        '<tr id="a"><th scope="row">x</th><td>ok</td><td class="number">3</td>'
        "<td>y</td><td><a>Edit</a></td></tr>"
    )
    html = tables.cells(row * 2, columns)
    [one, other] = re.findall("<tr.*?</tr>", html)
    assert one == other
    assert one == (
        '<tr role="row" id="a"><th role="rowheader" scope="row">x</th>'
        '<td role="cell" data-lead>ok</td>'
        '<td role="cell" data-label="Attempts" class="number">3</td>'
        '<td role="cell" data-label="So &#34;called&#34;">y</td>'
        '<td role="cell" data-actions><a>Edit</a></td></tr>'
    )
    assert [each.is_number for each in columns] == [False, False, True, False, False]


def test_checkboxes_and_cells_over_several_columns_have_no_name() -> None:
    columns = tables.columns(["Name", "Owner", "Created"])
    html = tables.cells(
        '<tr><td class="tick">t</td><th>n</th><td>o</td><td>c</td></tr>', columns, ticks=True
    )
    assert '<td role="cell" class="tick">' in html
    assert '<td role="cell" data-label="Owner">o' in html
    assert '<td role="cell" data-label="Created">c' in html
    html = tables.cells('<tr><td colspan="2">all</td><td>c</td></tr>', columns)
    assert html == (
        '<tr role="row"><td role="cell" colspan="2">all</td>'
        '<td role="cell" data-label="Created">c</td></tr>'
    )


def test_text_that_looks_like_a_cell_stays_text() -> None:
    columns = tables.columns(["Name"])
    html = tables.cells(f"<tr><th>{escape('<td>')}</th></tr>", columns)
    assert html == '<tr role="row"><th role="rowheader">&lt;td&gt;</th></tr>'
