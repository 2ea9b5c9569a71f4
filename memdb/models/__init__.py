"""Neural models behind ports. Nothing here knows SQL."""
