"""What memdb knows of human language without a model: sentences, words, phrases, clocks and dates.

Below `construct` and `activate`, which are strangers to each other and need the same reading of a text: a
date said in a message and the same date asked for in a question become the same interval because one grammar
read both.
"""
