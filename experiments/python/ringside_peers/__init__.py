"""Ranks of Ringside's runs that PyTorch trains: the schemes torch-ddp, torch-fsdp, torch-dp and
torch-local-sgd. `ringside compare` starts this package as a program, one process a rank."""
