"""The page of an edge in a browser: what its forms do, and that no title is ever markup."""

from __future__ import annotations

from tests.fixtures.waiting import until
from tests.producers.edge.http.shop import HOSTILE, beside

TOKEN = "a-token-of-the-site-0123456789"


def test_a_token_opens_the_page_whose_titles_are_text(page, tmp_path):
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda found: complaints.append(found.text))
    page.on("request", lambda found: asked.append(found.url))
    page.on("dialog", lambda found: found.accept())
    with beside(tmp_path, token=TOKEN) as shop:
        shop.people.known.add("cust-44")
        page.goto(shop.address)
        page.locator("#signin:not([hidden])").wait_for()
        page.fill("#token", TOKEN)
        page.click("#signin button")
        page.locator("#signin").wait_for(state="hidden")

        page.fill("#about", "cust-44")
        page.fill("#category", "Shoes")
        page.click("#ask button")
        page.locator("#list li").first.wait_for()
        assert HOSTILE in page.locator("#list li").first.inner_text()
        assert page.locator("main img, main script").count() == 0
        assert ("user", "cust-44") in [each[:2] for each in shop.lists.asked]

        for name, text in (("user", "cust-44"), ("item", HOSTILE), ("value", "4")):
            page.fill(f"#{name}", text)
        page.fill("#type", "rating")
        page.click("#event button")
        page.locator("#events li").first.wait_for()
        assert HOSTILE in page.locator("#events li").first.inner_text()

        csv = f"item_id,title\nSKU-9,{HOSTILE}\n".encode()
        page.set_input_files("#file", {"name": "items.csv", "mimeType": "text/csv", "buffer": csv})
        page.click("#import button")
        until(lambda: "1 items" in page.locator("#imported").inner_text(), "it is imported")
        assert shop.shelf.rows["SKU-9"].title == HOSTILE

        page.fill("#whose", "cust-44")
        page.click("#known button")
        until(lambda: "cust-44" in page.locator("#record").inner_text(), "it is shown")
        page.click("#delete")
        until(lambda: not shop.people.known, "the user is deleted")

        assert "local" in page.locator("#quality").inner_text()
        assert "epsilon" in page.locator("#terms").inner_text()
        assert all(url.startswith(shop.address) for url in asked)
        # Only the refusals before the token, which a browser always writes.
        assert all("401" in text for text in complaints), complaints


def test_a_user_of_dots_or_blanks_is_shown_exported_and_deleted(page, tmp_path):
    page.on("dialog", lambda found: found.accept())
    with beside(tmp_path) as shop:
        page.goto(shop.address)
        for user in ("..", "a/b", " 7 "):
            shop.people.known.add(user)
            page.fill("#whose", user)
            page.click("#known button")
            shown = f'"user": "{user}"'
            until(lambda shown=shown: shown in page.locator("#record").inner_text(), "it is shown")
            page.evaluate("document.getElementById('record').textContent = ''")
            page.click("#export")
            until(lambda shown=shown: shown in page.locator("#record").inner_text(), "it is there")
            page.click("#delete")
            until(lambda: not shop.people.known, "the user is deleted")
        page.fill("#about", "../")
        page.click("#ask button")
        until(lambda: ("user", "../") in [each[:2] for each in shop.lists.asked], "it is asked")
        lost = "import('/web/edge.js').then(({ Edge }) => new Edge().user(2 ** 53)).catch(String)"
        assert "an id is text" in page.evaluate(lost)


def test_a_refusal_is_a_sentence_on_the_page(page, tmp_path):
    with beside(tmp_path) as shop:
        page.goto(shop.address)
        page.fill("#about", "a")
        page.fill("#filter", "price <")
        page.click("#ask button")
        page.locator("#problem:not([hidden])").wait_for()
        assert "filter" in page.locator("#problem").inner_text()
