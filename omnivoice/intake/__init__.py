"""The door for everything that comes from outside: limits, paths, files, text, tensors, voices, audio.

No other room opens, reads, writes or renames files. What passes here is checked and plain; what does not is
refused with one of `errors`' exceptions. Nothing here knows a model, and nothing is imported from this
package itself: import the module that does the job.
"""
