"""What people wrote: comments, decisions and signatures."""
