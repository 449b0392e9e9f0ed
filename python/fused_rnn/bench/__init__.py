"""Times of fused_rnn and of every other GRU that is installed beside it.

``fused-rnn bench`` and the programs in benchmarks/ of a checkout are made of
it. Nothing here imports a framework: each library runs in a process of its own.
"""
