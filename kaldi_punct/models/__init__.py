"""The networks: lexical and acoustic encoders, their fusion, and MuSe made of them."""
