"""First names that speakers of training talks are given, so that no model learns who is who by name."""

from __future__ import annotations

from typing import Final

FIRST_NAMES: Final = tuple(
    """
    Aaron Abigail Adam Adele Aisha Alan Alba Alexei Alice Amara Amir Ana Anders Anita Anton Arjun
    Astrid Ayumi Barbara Beatriz Ben Benedict Bianca Boris Brenda Brian Bruno Carla Carlos
    Cecilia Celia Chen Chiara Chloe Chris Clara Colin Conrad Cora Daisy Dana Daniel Daphne Diana
    Diego Dimitri Dora Edgar Edith Eduardo Elaine Elena Elias Elif Ella Emil Emma Erik Esther
    Ethan Eva Fatima Felix Fiona Frank Frieda Gabriel George Greta Guido Hamid Hana Hanna Harold
    Harriet Heidi Helen Henry Hugo Ida Igor Ilse Imani Ines Irene Isaac Ivan Ivy Jack Jade Jamal
    Jana Jane Jason Javier Jean Jenny Joel Jonas Josef Joy Judith Julia Julian June Kai Karim
    Karin Kate Keiko Kenji Kevin Lara Laura Lea Leila Lena Leo Liam Lila Linda Lisa Liu Lorenzo
    Louis Lucas Lucy Luis Luna Lydia Maggie Malik Marco Margaret Marie Mark Marta Martin Mateo
    Max Maya Mei Mia Michael Mila Mira Miriam Mona Nadia Nancy Naomi Natalia Neil Nico Nina Noah
    Nora Oliver Omar Oscar Pablo Paula Pavel Peter Philip Pia Quentin Rafael Ralph Ravi Rebecca
    Rita Robert Robin Rosa Ruby Ruth Said Sandra Sarah Sasha Simon Sofia Sonia Stefan Stella
    Sven Sylvia Tanya Tara Theo Thomas Tina Toby Tom Uma Ursula Vera Victor Viola Walter Wendy
    Xavier Yara Yuki Yvonne Zara Zoe
    """.split()
)
