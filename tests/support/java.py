"""How tests run Java: for less than a second, in which nothing pays that it does in the background.
It ends before what it compiles thoroughly would be quicker."""

_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")
JAVA = ("java", *_QUICK, "-Dstdout.encoding=UTF-8")
JAVAC = ("javac", *(f"-J{each}" for each in _QUICK), "-encoding", "UTF-8", "-proc:none")
