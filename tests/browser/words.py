"""What the pages say, in each language that is shipped."""

from regsvc.core.i18n import load_translations

TRANSLATIONS = load_translations()


class Words:
    """The texts in one language by their keys; those in `section` by the last part of the key alone."""

    def __init__(self, language: str, section: str) -> None:
        self._language = language
        self._section = section

    def __call__(self, key: str, **facts: object) -> str:
        whole = key if "." in key else f"{self._section}.{key}"
        return TRANSLATIONS.text(whole, self._language, **facts)
