"""From a question to the working memory that answers it."""
