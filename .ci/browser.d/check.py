"""Looks at a page of `fairlock report` in Chromium: see .ci/browser."""

import sys
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

page, axe = (Path(name).resolve() for name in sys.argv[1:])
failures = []


def check(what, holds):
    if not holds:
        failures.append(what)
        print(f"browser: {what}", file=sys.stderr)


def opened(width, dark):
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


def look(width, dark):
    where = f"{width} pixels, {'dark' if dark else 'light'}"
    driver = opened(width, dark)
    try:
        console = [entry["message"] for entry in driver.get_log("browser")]
        check(f"{where}: the console says {console}", not console)
        # Whatever would be loaded would be in the log, the page itself once.
        asked = [line["message"] for line in driver.get_log("performance")]
        asked = [line for line in asked if '"Network.requestWillBeSent"' in line]
        check(f"{where}: something else is loaded", not any('"url":"http' in line for line in asked))

        pictures = driver.find_elements(By.CSS_SELECTOR, "figure svg[role=img]")
        check(f"{where}: no pictures", len(pictures) > 3)
        check(f"{where}: a picture without marks", all(p.find_elements(By.CSS_SELECTOR, "circle,path") for p in pictures))
        for part in driver.find_elements(By.CSS_SELECTOR, "details:not([open])"):
            driver.execute_script("arguments[0].open = true", part)
        tables = driver.find_elements(By.TAG_NAME, "table")
        check(f"{where}: no tables", tables)
        overflow = driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        check(f"{where}: the page is {overflow} pixels wider than the window", overflow <= 0)
        keyboard(driver, where)
        accessibility(driver, where)
    finally:
        driver.quit()


def keyboard(driver, where):
    """Tab reaches the head of a table, and Enter sorts by it."""
    driver.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
    body = driver.find_element(By.TAG_NAME, "body")
    for _ in range(200):
        body.send_keys(Keys.TAB)
        focus = driver.switch_to.active_element
        if focus.find_elements(By.XPATH, "self::button[parent::th]"):
            focus.send_keys(Keys.ENTER)
            head = focus.find_element(By.XPATH, "..")
            check(f"{where}: Enter does not sort", head.get_attribute("aria-sort") == "descending")
            return
    check(f"{where}: the keyboard does not reach the tables", False)


def accessibility(driver, where):
    driver.execute_script(axe.read_text())
    found = driver.execute_async_script(
        "axe.run().then(arguments[arguments.length - 1], arguments[arguments.length - 1])"
    )
    for violation in found["violations"]:
        nodes = [node["html"][:120] for node in violation["nodes"][:3]]
        check(f"{where}: {violation['id']}: {violation['help']}: {nodes}", False)


for width in [360, 1400]:
    for dark in [False, True]:
        look(width, dark)
if failures:
    sys.exit(f"browser: {len(failures)} failures")
print("browser: no complaints at 360 and 1,400 pixels, light and dark")
