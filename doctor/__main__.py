"""python -m doctor."""

import preflight_doctor

if __name__ == "__main__":
    preflight_doctor.main()
