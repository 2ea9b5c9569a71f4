"""Training of the models that come with memdb. Imports everything below; nothing imports it."""
