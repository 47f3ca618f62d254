"""The cryptography that the wires name, over the package `cryptography`. Pure: what is random comes as an argument."""
