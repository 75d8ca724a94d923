"""Pages."""

from __future__ import annotations

from tests.codegen.conftest import Make


def test_pages(make: Make) -> None:
    files = {file.path: file.content.decode() for file in make("markdown").files}
    page = files["groups/shop.orders.md"]
    assert "[shop.orders](groups/shop.orders.md): 6 messages. To the door." in files["README.md"]
    # what people write in descriptions is shown and does not become markup, a row or a comment
    assert "It's \\<b\\>placed\\</b\\> '; DROP TABLE x; --" in page
    assert "| `total` | number | yes | `minimum 0` | Euros \\| cents |" in page
    assert "| `buyer.e-mail` | string |" in page
    assert "| `source` | `uritemplate` | `/shops/{shop}` | yes |" in page
    assert "A producer gives: `shop`, and the payload." in page
    assert all(line.endswith("-->") and line.count("--") == 2 for line in page.splitlines() if line[:4] == "<!--")
