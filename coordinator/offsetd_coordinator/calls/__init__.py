"""The life of a call: admission, deadlines, answers, errors."""
