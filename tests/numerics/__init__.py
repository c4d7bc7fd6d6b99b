"""Tests of the arithmetic: sizes, tables, decoding and every transform, against published bytes and other code."""
