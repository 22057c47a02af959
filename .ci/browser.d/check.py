"""Looks at a page of `fairlock report` in Chromium, and at a copy with faults: see .ci/browser."""

import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

REPORT, AXE = (Path(name).resolve() for name in sys.argv[1:3])

# A fault for each look but those for pictures and tables, by the name of the complaint. None may
# go unnoticed, or the look is not worth anything.
PLANTED = {
    "console": "<script>console.error('planted')</script>",
    "network": "<img alt='' src='http://127.0.0.1:9/planted.png'>",
    "width": "<div style='width:3000px'>wide</div>",
    "keyboard": "<script>addEventListener('keydown', (key) => key.preventDefault())</script>",
    "words": "<figure><svg role='img' aria-label='x'>"
    "<text y='20' style='fill:light-dark(#aaa,#555)'>faint</text></svg></figure>",
    "marks": "<figure><svg role='img' aria-label='x'>"
    "<circle class='k0' style='fill:light-dark(#ccc,#333);stroke:none' r='9'/></svg></figure>",
    "clipped": "<figure><div class='scroll'><svg role='img' aria-label='x' style='width:3000px;max-width:none'>"
    "<text y='20'>far</text></svg></div></figure>",
    "over the edge": "<figure><svg role='img' aria-label='x' viewBox='0 0 480 40'>"
    "<text x='400' y='20'>a name that has no room</text></svg></figure>",
    "small words": "<figure><svg role='img' aria-label='x' viewBox='0 0 3000 40'><text y='20'>x</text></svg></figure>",
    "tall rows": "<table><tbody><tr style='height:150px'><td>x</table>",
    "margins": "<div class='scroll' style='width:200px'><table><tbody><tr><td style='min-width:900px'>x</table></div>",
    "colors": "<figure><svg role='img' aria-label='x'><circle class='k1'><title>one: 1</title></circle>"
    "<circle class='k8'><title>one: 2</title></circle></svg></figure>",
    "color-contrast": "<p style='color:light-dark(#aaa,#555)'>faint</p>",
    "label": "<input>",
    "button-name": "<button></button>",
    "aria-roles": "<div role='butler'>a role that there is not</div>",
    "svg-img-alt": "<svg role='img' width='9' height='9'><path d='M0 0h9v9'/></svg>",
}

# axe-core looks at words in HTML only. Of those in pictures, and of marks, the least contrast
# with the page, by the formula of WCAG 2.
CONTRAST = """
const channels = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
const luminance = (color) => {
  const [r, g, b] = channels(color).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = luminance(getComputedStyle(document.body).backgroundColor);
const contrast = (color) => {
  const [low, high] = [luminance(color), ground].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
// Whichever of its colours is seen best.
const seen = (mark) => {
  const style = getComputedStyle(mark);
  return Math.max(...[style.fill, style.stroke].filter((color) => color.startsWith("rgb(")).map(contrast));
};
return Math.min(...[...document.querySelectorAll(arguments[0])].map(seen));
"""

# What of the layout is wrong, by the name of the complaint.
LAYOUT = """
const all = (what, of = document) => [...of.querySelectorAll(what)];
const box = (element) => element.getBoundingClientRect();
const wrong = {};
const complain = (name, found) => { if (found.length) wrong[name] = found.slice(0, 3).join("; "); };
const outside = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1;
const pictures = all("figure svg");
const name = (picture) => picture.getAttribute("aria-label");
const window_ = { left: 0, right: document.documentElement.clientWidth };
const clipped = (picture) =>
  [window_, ...all(".scroll").filter((part) => part.contains(picture)).map(box)].some((part) => outside(box(picture), part));
complain("clipped", pictures.filter(clipped).map(name));
const over = (picture) => all("text,circle,path", picture).filter((mark) => outside(box(mark), box(picture)));
complain("over the edge", pictures.flatMap((picture) => over(picture).map((mark) => `${name(picture)}: ${mark.textContent}`)));
const size = (text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
// A title that stands upright has its scale elsewhere in the matrix.
const lying = (text) => !text.hasAttribute("transform");
complain("small words", all("figure svg text").filter((text) => lying(text) && size(text) < 8.5)
  .map((text) => `${text.textContent}: ${size(text)} pixels`));
complain("tall rows", all("tbody tr").filter((row) => box(row).height > 100)
  .map((row) => `${box(row).height} pixels: ${row.textContent.slice(0, 80)}`));
const cut = (part) => part.scrollWidth > part.clientWidth + 1 && window_.right - box(part).width > 64;
complain("margins", all(".scroll").filter(cut).map((part) => `${part.ariaLabel} is cut off, ${box(part).width} pixels wide`));
const colors = {};
for (const title of all("figure svg title")) {
  const lock = title.textContent.split(/: |, threads /)[0];
  (colors[lock] ??= new Set()).add(title.parentNode.classList[0]);
}
complain("colors", Object.entries(colors).filter(([_, of]) => of.size > 1).map(([lock, of]) => `${lock} has ${[...of]}`));
return wrong;
"""


def opened(page, width, dark):
    options = webdriver.ChromeOptions()
    for flag in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},900"]:
        options.add_argument(flag)
    if dark:
        options.add_argument("--force-dark-mode")
        options.add_argument("--enable-features=WebContentsForceDark:ForceDark/false")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options)
    # A window cannot be as narrow as a phone.
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    driver.get(page.as_uri())
    return driver


def look(page, width, dark):
    """What there is to complain about, by name."""
    complaints = {}

    def check(name, holds, what):
        if not holds:
            complaints[name] = what

    driver = opened(page, width, dark)
    try:
        console = [entry["message"] for entry in driver.get_log("browser")]
        check("console", not console, f"it says {console}")
        # Whatever would be loaded would be in the log, the page itself once.
        asked = [line["message"] for line in driver.get_log("performance")]
        asked = [line for line in asked if '"Network.requestWillBeSent"' in line]
        check("network", not any('"url":"http' in line for line in asked), "something else is loaded")

        pictures = driver.find_elements(By.CSS_SELECTOR, "figure svg[role=img]")
        check("pictures", len(pictures) > 3, f"there are {len(pictures)}")
        marked = [picture.find_elements(By.CSS_SELECTOR, "circle,path") for picture in pictures]
        check("empty pictures", all(marked), "one has no marks")
        # But for the long stacks in tables, whose rows are low until the reader opens one.
        for part in driver.find_elements(By.CSS_SELECTOR, "details:not([open]):not(td details)"):
            driver.execute_script("arguments[0].open = true", part)
        check("tables", driver.find_elements(By.TAG_NAME, "table"), "there are none")
        overflow = driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        check("width", overflow <= 0, f"the page is {overflow} pixels wider than the window")
        for name, what in driver.execute_script(LAYOUT).items():
            check(name, False, what)
        for name, marks, least in [("words", "svg text", 4.5), ("marks", "svg [class^=k]", 3)]:
            contrast = driver.execute_script(CONTRAST, marks) or 0  # nothing there
            check(name, contrast >= least, f"in a picture, contrast {contrast:.1f}, and {least} is wanted")
        check("keyboard", sorts_by_keyboard(driver), "Tab and Enter do not sort a table")
        for violation in violations(driver):
            nodes = [node["html"][:120] for node in violation["nodes"][:3]]
            check(violation["id"], False, f"{violation['help']}: {nodes}")
    finally:
        driver.quit()
    return complaints


def sorts_by_keyboard(driver):
    """Whether Tab reaches the head of a table, and Enter sorts by it."""
    driver.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
    body = driver.find_element(By.TAG_NAME, "body")
    for _ in range(200):
        body.send_keys(Keys.TAB)
        focus = driver.switch_to.active_element
        if focus.find_elements(By.XPATH, "self::button[parent::th]"):
            focus.send_keys(Keys.ENTER)
            return focus.find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    return False


def violations(driver):
    # A machine that does something else is slow.
    driver.set_script_timeout(600)
    driver.execute_script(AXE.read_text())
    found = driver.execute_async_script(
        "axe.run({ resultTypes: ['violations'] }).then(arguments[0], (error) => arguments[0]({ error: String(error) }))"
    )
    return found["violations"]


def with_faults(folder):
    copy = Path(folder) / "faults.html"
    copy.write_text(REPORT.read_text().replace("</main>", "".join(PLANTED.values()) + "</main>"))
    return copy


failures = 0
with tempfile.TemporaryDirectory() as folder:
    faults = with_faults(folder)
    for width in [360, 768, 1400]:
        for dark in [False, True]:
            where = f"{width} pixels, {'dark' if dark else 'light'}"
            complaints = [f"{name}: {what}" for name, what in look(REPORT, width, dark).items()]
            found = look(faults, width, dark)
            complaints += [f"a planted fault is not found: {name}" for name in PLANTED if name not in found]
            for complaint in complaints:
                print(f"browser: {where}: {complaint}", file=sys.stderr)
            failures += len(complaints)
if failures:
    sys.exit(f"browser: {failures} failures")
print("browser: no complaints at 360, 768 and 1,400 pixels, light and dark; every planted fault was found")
