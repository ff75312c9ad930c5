"""QR codes."""


def draw_qr_code(text: str) -> str:
    """Return a QR code as a `data:` address of a PNG image. The library is loaded when it is used first."""
    import segno

    image: str = segno.make(text, error="m", micro=False).png_data_uri(scale=5, border=4)
    return image
